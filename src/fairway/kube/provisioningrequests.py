"""What is what called in the API of ProvisioningRequests? Both who asks and who answers go by these names.

Source: autoscaler cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1/types.go.
"""

from __future__ import annotations

REQUEST = "ProvisioningRequest.autoscaling.x-k8s.io"
POD_TEMPLATE = "PodTemplate"

CHECK_CAPACITY = "check-capacity.autoscaling.x-k8s.io"
BEST_EFFORT_ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"

# Annotations of pods that use what was provisioned.
CONSUMES = "autoscaling.x-k8s.io/consume-provisioning-request"
OF_CLASS = "autoscaling.x-k8s.io/provisioning-class-name"

# Conditions.
ACCEPTED, PROVISIONED, FAILED = "Accepted", "Provisioned", "Failed"
BOOKING_EXPIRED, CAPACITY_REVOKED = "BookingExpired", "CapacityRevoked"
