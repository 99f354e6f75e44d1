"""Kubeflow's training jobs: PyTorchJob, TFJob, XGBoostJob and MPIJob.

In: a training job, its pods and services, the time. Out: pods and headless services (an MPIJob: a config map, a
secret and a launcher) to create and delete, the next status, events.

Reading order: `decide` (what all but MPIJob v2beta1 have in common, step by step), `framework` (a job read with
its defaults, and what a framework must say), `pytorch`, `tensorflow`, `xgboost`, `mpiv1` (what each writes into
its pods, and when it has succeeded), `replicapods` (pods and services by role and index), `status` (conditions and
counts), `abnormal` (complaints about pods), then `mpi` (mpi-operator's MPIJob v2beta1, a controller of its own) with
`mpipods`, and `controllers` (one for each kind).

Source: kubeflow/training-operator release-1.9 pkg/controller.v1, pkg/core, pkg/util; kubeflow/mpi-operator v0.8
pkg/controller.
"""
