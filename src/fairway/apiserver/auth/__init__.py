"""Who is asking? Certificates, tokens, and the user a request is made as.

In: a connection's certificate, a bearer token, impersonation headers. Out: an `admission.request.User`, or nobody:
there is no anonymous access. Reading order: `certificates`, `tokens`, `authentication`.
"""
