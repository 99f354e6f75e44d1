"""Where does a pod go, and if nowhere, why and what would make room: kube-scheduler's decisions.

In: a cluster's accounts and one pod. Out: a frozen verdict (`verdict.Scheduled` or `verdict.Unschedulable`).
Decisions are pure; whoever runs them binds, evicts and writes conditions.

Reading order: `verdict` (what can be decided, in kube-scheduler's words), `profile` (plugins, weights,
arguments) and `config` (KubeSchedulerConfiguration files), `cycle` (one scheduling cycle), `filters` and
`nodelocal`, `volumes` (with `volumefacts`), `dynamicresources` (with `devices`), `resourcescores` and `plainscores`,
`podaffinity`, `podspread` (the plugins), `ranking` (the best of those that fit), `diagnosis` (why not), `preemption`
and `evictions`, `queue` (who is next) and `requeue` (what brings a pod back), `extenders` (webhooks for placement),
then `gpushare` (parts of GPUs, and the placement policies of the FGD paper) and `hami` (parts of GPUs as HAMi gives
them).
"""
