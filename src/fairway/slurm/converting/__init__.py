"""What do a site's scripts and configuration become on Kubernetes with Kueue, and what has no equal there?

In: texts of batch scripts, and a site's `Configuration` with its accounts. Out: Kubernetes objects, and a `Note` for
every directive or line that is done in another way, left out, or lost, with its file and line. Nothing is written
here, and nothing is given by halves: a script that sbatch would refuse is a located error in sbatch's own words.

An account is a namespace with a ClusterQueue in a Cohort, its fair share the weight; a partition is a label of its
nodes, a LocalQueue in each namespace and a selector in each job; nodes of one kind are one ResourceFlavor; a QOS is
a WorkloadPriorityClass.

Reading order: `notes`, `scripts` (a script as requests), `layouts` (nodes × tasks × devices → pods), `launching` (what
the script starts), `placement` (constraints → node affinity), `jobs` (the objects); `sites` (slurm.conf → queues) with
`sitenodes`; `slinky` (Slurm itself on Kubernetes: SchedMD's operator and bridge).
"""
