"""Admission webhooks: who is to be called, with what, and what their answers mean.

No I/O: a call is data (`CallWebhook`), its outcome comes back as data (`WebhookAnswer`).

Reading order: `reviews` (the AdmissionReview sent, and whether what came back is one), `calling` (matching,
order, failure policies), `phases` (mutating webhooks one after the other, validating ones all of them).

Source: apiserver pkg/admission/plugin/webhook (v1.36).
"""
