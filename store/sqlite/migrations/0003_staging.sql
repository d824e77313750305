-- The build that a job was made for while that was not complete: until it is, lists leave the job out.
ALTER TABLE job ADD COLUMN staging BLOB CHECK (length(staging) = 16);
