"""Which Deployments, Services and Knative Services does an InferenceService mean, and what does its status say?

In: an InferenceService, the ServingRuntimes there are (or KServe's own), what its children have come to. Out: actions.
Knative Services are only made here; who runs them is not this room's.

Reading order: `runtimes` (which one serves a model), `podspecs` (runtime and predictor as one pod), `storage` (what the
webhook adds so that the model is there), `decide`, `status`.

Source: kserve v0.20 pkg/controller/v1beta1/inferenceservice, pkg/webhook/admission/pod.
"""
