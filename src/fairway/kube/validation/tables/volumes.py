"""Volumes of pods and persistent volume claims.

One paragraph a type: its name, then its fields. The notation is explained in `validation.schema`. Names and types
are facts of the Kubernetes API. Source: k8s.io/api v0.37.0-beta.0 types.go, json tags.
"""

from __future__ import annotations

TYPES = """
PersistentVolumeClaim
  apiVersion str, kind str, metadata ObjectMeta, spec PersistentVolumeClaimSpec,
  status PersistentVolumeClaimStatus
PersistentVolumeClaimSpec
  accessModes [str], selector LabelSelector, resources VolumeResourceRequirements, volumeName str,
  storageClassName str, volumeMode str, dataSource TypedLocalObjectReference,
  dataSourceRef TypedObjectReference, volumeAttributesClassName str
PersistentVolumeClaimStatus
  phase str, accessModes [str], capacity {qty}, conditions [PersistentVolumeClaimCondition],
  allocatedResources {qty}, allocatedResourceStatuses {str}, currentVolumeAttributesClassName str,
  modifyVolumeStatus ModifyVolumeStatus, healthStatus VolumeHealthStatus
Volume
  name str, hostPath HostPathVolumeSource, emptyDir EmptyDirVolumeSource,
  gcePersistentDisk GCEPersistentDiskVolumeSource, awsElasticBlockStore AWSElasticBlockStoreVolumeSource,
  gitRepo GitRepoVolumeSource, secret SecretVolumeSource, nfs NFSVolumeSource, iscsi ISCSIVolumeSource,
  glusterfs GlusterfsVolumeSource, persistentVolumeClaim PersistentVolumeClaimVolumeSource,
  rbd RBDVolumeSource, flexVolume FlexVolumeSource, cinder CinderVolumeSource, cephfs CephFSVolumeSource,
  flocker FlockerVolumeSource, downwardAPI DownwardAPIVolumeSource, fc FCVolumeSource,
  azureFile AzureFileVolumeSource, configMap ConfigMapVolumeSource,
  vsphereVolume VsphereVirtualDiskVolumeSource, quobyte QuobyteVolumeSource,
  azureDisk AzureDiskVolumeSource, photonPersistentDisk PhotonPersistentDiskVolumeSource,
  projected ProjectedVolumeSource, portworxVolume PortworxVolumeSource, scaleIO ScaleIOVolumeSource,
  storageos StorageOSVolumeSource, csi CSIVolumeSource, ephemeral EphemeralVolumeSource,
  image ImageVolumeSource
VolumeResourceRequirements
  limits {qty}, requests {qty}
TypedLocalObjectReference
  apiGroup str, kind str, name str
TypedObjectReference
  apiGroup str, kind str, name str, namespace str
PersistentVolumeClaimCondition
  type str, status str, lastProbeTime time, lastTransitionTime time, reason str, message str
ModifyVolumeStatus
  targetVolumeAttributesClassName str, status str
VolumeHealthStatus
  healthConditions [VolumeHealthCondition], lastTransitionTime time
HostPathVolumeSource
  path str, type str
EmptyDirVolumeSource
  medium str, sizeLimit qty, mode i32
GCEPersistentDiskVolumeSource
  pdName str, fsType str, partition i32, readOnly bool
AWSElasticBlockStoreVolumeSource
  volumeID str, fsType str, partition i32, readOnly bool
GitRepoVolumeSource
  repository str, revision str, directory str
SecretVolumeSource
  secretName str, items [KeyToPath], defaultMode i32, optional bool, defaultUser i64
NFSVolumeSource
  server str, path str, readOnly bool
ISCSIVolumeSource
  targetPortal str, iqn str, lun i32, iscsiInterface str, fsType str, readOnly bool, portals [str],
  chapAuthDiscovery bool, chapAuthSession bool, secretRef LocalObjectReference, initiatorName str
GlusterfsVolumeSource
  endpoints str, path str, readOnly bool
PersistentVolumeClaimVolumeSource
  claimName str, readOnly bool
RBDVolumeSource
  monitors [str], image str, fsType str, pool str, user str, keyring str, secretRef LocalObjectReference,
  readOnly bool
FlexVolumeSource
  driver str, fsType str, secretRef LocalObjectReference, readOnly bool, options {str}
CinderVolumeSource
  volumeID str, fsType str, readOnly bool, secretRef LocalObjectReference
CephFSVolumeSource
  monitors [str], path str, user str, secretFile str, secretRef LocalObjectReference, readOnly bool
FlockerVolumeSource
  datasetName str, datasetUUID str
DownwardAPIVolumeSource
  items [DownwardAPIVolumeFile], defaultMode i32, defaultUser i64
FCVolumeSource
  targetWWNs [str], lun i32, fsType str, readOnly bool, wwids [str]
AzureFileVolumeSource
  secretName str, shareName str, readOnly bool
ConfigMapVolumeSource
  name str, items [KeyToPath], defaultMode i32, optional bool, defaultUser i64
VsphereVirtualDiskVolumeSource
  volumePath str, fsType str, storagePolicyName str, storagePolicyID str
QuobyteVolumeSource
  registry str, volume str, readOnly bool, user str, group str, tenant str
AzureDiskVolumeSource
  diskName str, diskURI str, cachingMode str, fsType str, readOnly bool, kind str
PhotonPersistentDiskVolumeSource
  pdID str, fsType str
ProjectedVolumeSource
  sources [VolumeProjection], defaultMode i32, defaultUser i64
PortworxVolumeSource
  volumeID str, fsType str, readOnly bool
ScaleIOVolumeSource
  gateway str, system str, secretRef LocalObjectReference, sslEnabled bool, protectionDomain str,
  storagePool str, storageMode str, volumeName str, fsType str, readOnly bool
StorageOSVolumeSource
  volumeName str, volumeNamespace str, fsType str, readOnly bool, secretRef LocalObjectReference
CSIVolumeSource
  driver str, readOnly bool, fsType str, volumeAttributes {str},
  nodePublishSecretRef LocalObjectReference
EphemeralVolumeSource
  volumeClaimTemplate PersistentVolumeClaimTemplate
ImageVolumeSource
  reference str, pullPolicy str
KeyToPath
  key str, path str, mode i32, user i64
DownwardAPIVolumeFile
  path str, fieldRef ObjectFieldSelector, resourceFieldRef ResourceFieldSelector, mode i32, user i64
VolumeProjection
  secret SecretProjection, downwardAPI DownwardAPIProjection, configMap ConfigMapProjection,
  serviceAccountToken ServiceAccountTokenProjection, clusterTrustBundle ClusterTrustBundleProjection,
  podCertificate PodCertificateProjection
PersistentVolumeClaimTemplate
  metadata ObjectMeta, spec PersistentVolumeClaimSpec
ObjectFieldSelector
  apiVersion str, fieldPath str
ResourceFieldSelector
  containerName str, resource str, divisor qty
SecretProjection
  name str, items [KeyToPath], optional bool
DownwardAPIProjection
  items [DownwardAPIVolumeFile]
ConfigMapProjection
  name str, items [KeyToPath], optional bool
ServiceAccountTokenProjection
  audience str, expirationSeconds i64, path str, user i64
ClusterTrustBundleProjection
  name str, signerName str, labelSelector LabelSelector, optional bool, path str, user i64
PodCertificateProjection
  signerName str, keyType str, maxExpirationSeconds i32, credentialBundlePath str, keyPath str,
  certificateChainPath str, userAnnotations {str}, user i64
"""
