-- Puts one wake-up job on RQ's queue, as RQ itself would, unless enough wait there already: they are hints, and a
-- worker that follows one takes all that is due.
--
-- KEYS  1 RQ's queue (list)  2 RQ's set of queues  3 the job (hash)
-- ARGV  1 how many jobs may wait  2 life of a job that nobody takes (s)  3 job id  4.. fields and values of the job
-- Answers  1 written, 0 enough were waiting. A repeat writes a second hint, which is harmless.

if redis.call('LLEN', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
redis.call('SADD', KEYS[2], KEYS[1])
redis.call('HSET', KEYS[3], unpack(ARGV, 4))
redis.call('EXPIRE', KEYS[3], ARGV[2])
redis.call('RPUSH', KEYS[1], ARGV[3])
return 1
