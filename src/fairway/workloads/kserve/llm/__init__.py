"""Which Deployments, LeaderWorkerSets, Services, HTTPRoutes and InferencePools does an LLMInferenceService mean?

In: an LLMInferenceService, the LLMInferenceServiceConfigs there are (or KServe's own presets), what its children and
its Gateways have come to. Out: actions, and the status.

Reading order: `templates` (Go's templates, as configs have them), `presets` (which configs, merged and filled in),
`models` (how the weights get into a pod), `workloads` (its servers), `routing` (scheduler, pool, route), `readiness`
(what its conditions follow from), `decide`.

Source: kserve v0.20 pkg/controller/v1alpha2/llmisvc, pkg/apis/serving/v1alpha2.
"""
