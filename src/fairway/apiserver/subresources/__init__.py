"""What else can be done with an object than reading and writing it? One module a subresource.

Reading order: `dispatch`, `scale`, `eviction`, `binding`, `tokens`, `containers`, `logs`, `execution`, `nodeproxy`.
"""
