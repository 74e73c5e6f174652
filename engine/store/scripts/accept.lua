-- A message becomes a turn, once. Its event 1 (`session`) is written here, so an accepted turn is never unseen.
-- An idle session makes it active and queued; a busy one lets it wait (at most max_wait), or refuses it.
--
-- KEYS  1 session  2 waiting list  3 turns list  4 turn  5 events  6 idempotency  7 sessions of the tenant
-- ARGV  1 prefix  2 <T>  3 <S>  4 body digest ('' without a key)  5 idempotency seconds  6 on_busy: queue | reject | front
--       7 max_wait  8 event entry  9 session id  10 tenant  11 agent  12 environment  13 input (JSON)
-- Answers  NEW queued | NEW waiting <T of the active turn> | SAME <T> state | CONFLICT <T> | BUSY <T> | FULL <T>
-- Repeating it with the same <T>, or the same idempotency key and digest, answers SAME and changes nothing.

local prefix, ref, session, digest, on_busy = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[6]

local state = redis.call('HGET', KEYS[4], 'state')
if state then return {'SAME', ref, state} end
if digest ~= '' then
  local seen = redis.call('HMGET', KEYS[6], 'turn', 'digest')
  if seen[1] then
    if seen[2] ~= digest then return {'CONFLICT', seen[1]} end
    return {'SAME', seen[1], redis.call('HGET', prefix .. 't:' .. seen[1], 'state') or ''}
  end
end

local active = redis.call('HGET', KEYS[1], 'active')
local busy = active and active ~= ''
if busy then
  if on_busy == 'reject' then return {'BUSY', active} end
  if redis.call('LLEN', KEYS[2]) >= tonumber(ARGV[7]) then return {'FULL', active} end
end

local now = now_ms()
if not active then
  redis.call('HSET', KEYS[1], 'id', ARGV[9], 'tenant', ARGV[10], 'agent', ARGV[11], 'active', '', 'base', 0, 'cut', 0)
end
redis.call('HSET', KEYS[1], 'last', ref)
redis.call('HSET', KEYS[4], 'state', busy and 'waiting' or 'queued', 'session', session, 'sid', ARGV[9],
  'tenant', ARGV[10], 'agent', ARGV[11], 'env', ARGV[12], 'input', ARGV[13], 'tok', '', 'deaths', 0, 'at', now)
redis.call('XADD', KEYS[5], '1-0', 'e', ARGV[8])
redis.call('RPUSH', KEYS[3], ref)
redis.call('ZADD', KEYS[7], now, session)
if busy then
  redis.call(on_busy == 'front' and 'LPUSH' or 'RPUSH', KEYS[2], ref)
else
  redis.call('HSET', KEYS[1], 'active', ref)
  line_up(prefix, ref, now)
end
if digest ~= '' then
  redis.call('HSET', KEYS[6], 'turn', ref, 'digest', digest)
  redis.call('EXPIRE', KEYS[6], ARGV[5])
  redis.call('HSET', KEYS[4], 'idem', KEYS[6])
end
if busy then return {'NEW', ref, 'waiting', active} end
return {'NEW', ref, 'queued', ''}
