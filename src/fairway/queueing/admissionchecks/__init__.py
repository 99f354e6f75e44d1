"""Does a check that Kueue itself answers let a Workload in? The one for ProvisioningRequests.

In: a Workload that holds quota, its AdmissionChecks and their ProvisioningRequestConfigs, the ProvisioningRequests made
for it. Out: the requests to make or to remove, and the state of each check. Who answers the requests (the Cluster
Autoscaler) is not known here.

Reading order: `configs` (which check is meant, and is it in order), `requests` (names, attempts, pod sets, objects),
`provisioning` (the check).

Source: pkg/controller/admissionchecks/provisioning (main, 2026-08), unless a docstring says otherwise.
"""
