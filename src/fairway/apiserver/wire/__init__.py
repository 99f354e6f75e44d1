"""How do bytes become requests, and answers bytes? HTTP/1.1 over TLS, nothing of Kubernetes.

In: connections. Out: `Request`s to one handler, and its `Response`s and `Stream`s back, with limits on everything a
client can make large or slow. Reading order: `messages`, `connection`, `websocket`.
"""
