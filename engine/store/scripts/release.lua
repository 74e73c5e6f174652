-- A worker's running turns go back into the line: all of a dead worker's (if its counter stands where the caller
-- saw it), or the named ones of the caller's own that it does not know (a lost reply, a crashed task).
--
-- KEYS  1 running  2 beats  3 claims
-- ARGV  1 prefix  2 worker  3 counter as seen ('' if it had none), or 'own'  4 deaths to count  5 most turns in one call
--       6 most ms that count as running time since the owner's last write: nobody knows how long it worked
--       7.. with 'own': the turns <T>
-- Answers  the released <T>. Safe to repeat. At most ARGV[5] at a time: call again while it answers as many.

local prefix, worker, seen, deaths, most = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local members = {}
if seen == 'own' then
  for i = 7, #ARGV do members[#members + 1] = worker .. '|' .. ARGV[i] end
else
  if (redis.call('HGET', KEYS[2], worker) or '') ~= seen then return {} end
  members = redis.call('ZRANGEBYLEX', KEYS[1], '[' .. worker .. '|', '(' .. worker .. '}', 'LIMIT', 0, most)
end

local now = now_ms()
local released = {}
for _, member in ipairs(members) do
  local ref = string.sub(member, #worker + 2)
  local key = prefix .. 't:' .. ref
  local f = redis.call('HMGET', key, 'state', 'own', 'at')
  -- An owner that lost only its entry (deleted by hand) still holds the turn, and nobody else would ever find it.
  local mine = redis.call('ZREM', KEYS[1], member) == 1 or seen == 'own'
  if mine and f[1] == 'running' and f[2] == worker then
    redis.call('SREM', prefix .. 'busy:' .. tenant_of(ref), ref)
    redis.call('HSET', key, 'state', 'queued', 'tok', '')
    redis.call('HINCRBY', key, 'deaths', deaths)
    redis.call('HINCRBY', key, 'lost', math.max(0, math.min(now - (tonumber(f[3]) or now), tonumber(ARGV[6]))))
    line_up(prefix, ref, now)
    released[#released + 1] = ref
  end
end
if seen ~= 'own' and #members < most then
  redis.call('HDEL', KEYS[2], worker)
  redis.call('HDEL', KEYS[3], worker)
end
return released
