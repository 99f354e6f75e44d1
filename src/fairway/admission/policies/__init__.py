"""ValidatingAdmissionPolicy and MutatingAdmissionPolicy: rules in CEL, bound to where they hold.

In: the policies and bindings of a view, an admission request. Out: the first refusal, warnings and audit
annotations; or the object as changed.

Reading order: `matching` (which requests a rule is about; webhooks use it too), `names` (what expressions may
name), `conditions` (matchConditions), `params`, `validating`, `mutating`, `index` (compiled once, until a policy
changes), `checking` (are the policies themselves well-formed?).

Source: apiserver pkg/admission/plugin/policy (v1.36).
"""
