"""Jobs as Kubeflow TrainJobs on Kubernetes."""
