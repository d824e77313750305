-- Deleting a job has to find who refers to it, and a start has to find the few live builds among all.
CREATE INDEX build_ref_job ON build_ref (job);

CREATE INDEX build_live ON build (seq) WHERE outcome = 0;
