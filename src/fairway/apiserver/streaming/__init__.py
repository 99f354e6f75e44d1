"""How do bytes travel between a client and a process or port in a pod? exec, attach and port-forward on the wire.

Clients speak one of three: WebSocket channels (kubectl from 1.31 for exec and attach, the Python clients), SPDY/3.1
after an upgrade (older kubectl, everything built on older client-go), and SPDY inside WebSocket messages (kubectl's
port-forward from 1.31). `upgrades` decides which, `remotecommand` joins the first two to a `Process` of
`kubelets.interface`, `portforward` all three to `Port`s, `spdysession` keeps the streams of a SPDY connection.

Source: apimachinery pkg/util/remotecommand, apiserver pkg/util/proxy, kubelet pkg/cri/streaming (v1.36); KEP-4006.
"""
