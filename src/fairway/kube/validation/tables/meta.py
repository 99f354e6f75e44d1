"""Metadata, references, selectors: types that every kind shares.

One paragraph a type: its name, then its fields. The notation is explained in `validation.schema`. Names and types
are facts of the Kubernetes API. Source: k8s.io/api v0.37.0-beta.0 types.go, json tags.
"""

from __future__ import annotations

TYPES = """
ObjectMeta
  name str, generateName str, namespace str, selfLink str, uid str, resourceVersion str, generation i64,
  creationTimestamp time, deletionTimestamp time, deletionGracePeriodSeconds i64, labels {str},
  annotations {str?}, ownerReferences [OwnerReference], finalizers [str],
  managedFields [ManagedFieldsEntry]
ObjectReference
  kind str, namespace str, name str, uid str, apiVersion str, resourceVersion str, fieldPath str
LocalObjectReference
  name str
OwnerReference
  apiVersion str, kind str, name str, uid str, controller bool, blockOwnerDeletion bool
ManagedFieldsEntry
  manager str, operation str, apiVersion str, time time, fieldsType str, fieldsV1 any, subresource str
Condition
  type str, status str, observedGeneration i64, lastTransitionTime time, reason str, message str
LabelSelector
  matchLabels {str}, matchExpressions [LabelSelectorRequirement]
LabelSelectorRequirement
  key str, operator str, values [str]
"""
