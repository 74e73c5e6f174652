-- An idle session leaves without a trace: its log, its turns, their events, its place in the lists.
--
-- KEYS  1 session  2 log  3 waiting list  4 turns list  5 sessions of the tenant
-- ARGV  1 prefix  2 <S>  3 news channel: readers of its turns are told to look again, and find nothing
-- Answers  OK | BUSY <T of the active turn> | GONE. Repeating it answers GONE.

local active = redis.call('HGET', KEYS[1], 'active')
if not active then return {'GONE'} end
if active ~= '' then return {'BUSY', active} end
for _, ref in ipairs(redis.call('LRANGE', KEYS[4], 0, -1)) do
  local key = ARGV[1] .. 't:' .. ref
  local idem = redis.call('HGET', key, 'idem')
  -- After its time a key may have been used again: then it belongs to another turn.
  if idem and redis.call('HGET', idem, 'turn') == ref then redis.call('UNLINK', idem) end
  redis.call('UNLINK', key, key .. ':ev')
  redis.call('PUBLISH', ARGV[3], ref .. '\n0')
end
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
redis.call('ZREM', KEYS[5], ARGV[2])
return {'OK'}
