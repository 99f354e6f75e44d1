"""RBAC: who may do what.

In: the store's roles and bindings, a user, and what the user wants. Out: yes or no, with Kubernetes' reason text.

For the API server:

    authorizer = Authorizer(view); store.followers.append(authorizer)     # once
    decision = authorizer.authorize(Attributes(user, verb, group, resource, subresource, namespace, name))
    decision.allowed, decision.reason                   # remembered until an RBAC object changes
    attributes.forbidden_status(asked, decision.reason) # the 403
    escalation.refusal(authorizer, request)             # the 403 on roles and bindings, or None
    impersonation.checks(requester, username, groups, uid, extra)   # each must be allowed; then …
    impersonation.impersonated(username, groups, uid, extra)        # … this is the user
    reviews.answer(authorizer, review, user)            # SubjectAccessReview and friends → the object with status
    bootstrap.objects()                                 # roles and bindings every cluster starts with
    aggregation.reconcile(view)                         # rewrites aggregated cluster roles

Reading order: `attributes`, `rules`, `authorizer`, `escalation`, `impersonation`, `reviews`, `bootstrap`,
`aggregation`.

Source: plugin/pkg/auth/authorizer/rbac/rbac.go, pkg/registry/rbac (v1.36).
"""
