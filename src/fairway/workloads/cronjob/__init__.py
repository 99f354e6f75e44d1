"""CronJob: start a Job whenever the schedule says so.

In: a CronJob, its Jobs, the time. Out: a Job to create, finished ones to delete, its status, when to wake.

Reading order: `missed` (which start is due now), `decide`; cron expressions are `kube/cron`.

Source: pkg/controller/cronjob (v1.36); github.com/robfig/cron v3.
"""
