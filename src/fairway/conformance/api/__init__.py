"""Does the server answer HTTP requests as kube-apiserver did?

In: recorded requests with their answers. Out: which agree, and where the others differ. `requests` has it all; the
server is that of `conformance.kubectl.playing`.
"""
