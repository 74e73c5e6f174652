-- One step of a turn becomes durable: its records and its events, at once, and how it goes on from there. With a
-- token it is the owner's; with an empty token it is *forced* (cancel), and the lengths alone guard it.
--
-- KEYS  1 turn  2 events  3 log  4 session  5 waiting list  6 running  7 pending of the tenant
-- ARGV  1 prefix  2 <T>  3 token or ''  4 expected number of events  5 expected length of the log  6 op
--       7 ending: go | open | park | queue | done  8 ms from now: park: expiry (0: none), queue: due
--       9 park: card; done: outcome; queue: note  10 park: item  11 park: digest
--       12 seconds that a finished turn stays  13 news channel  14 number of events  15.. events, then records
-- Answers  OK <T of the session's next turn, now queued, or ''> | FENCED | MOVED | DONE | GONE
-- Repeating it with the same op answers the same and changes nothing.

local prefix, ref, token, op, ending = ARGV[1], ARGV[2], ARGV[3], ARGV[6], ARGV[7]
local delay, n_events = tonumber(ARGV[8]), tonumber(ARGV[14])

local f = redis.call('HMGET', KEYS[1], 'state', 'tok', 'op', 'own', 'next', 'item')
local state, owner, item = f[1], f[4], f[6]
if not state then return {'GONE'} end
if f[3] == op then return {'OK', f[5] or ''} end
if state == 'done' then return {'DONE'} end
if token ~= '' and (state ~= 'running' or f[2] ~= token) then return {'FENCED'} end
local first = redis.call('XLEN', KEYS[2])
if first ~= tonumber(ARGV[4]) or redis.call('LLEN', KEYS[3]) ~= tonumber(ARGV[5]) then return {'MOVED'} end

local now = now_ms()
for i = 1, n_events do
  redis.call('XADD', KEYS[2], (first + i) .. '-0', 'e', ARGV[14 + i])
end
for i = 15 + n_events, #ARGV do
  redis.call('RPUSH', KEYS[3], ARGV[i])
end

local next_ref = ''
if ending == 'go' then
  redis.call('HSET', KEYS[1], 'op', op, 'deaths', 0, 'at', now)
elseif ending == 'open' then
  redis.call('HSET', KEYS[1], 'op', op, 'at', now)
else
  if state == 'running' then
    redis.call('ZREM', KEYS[6], owner .. '|' .. ref)
    redis.call('SREM', prefix .. 'busy:' .. tenant_of(ref), ref)
  end
  line_leave(prefix, ref)
  if state == 'parked' and item then
    redis.call('ZREM', KEYS[7], item)
    redis.call('HSET', KEYS[1], 'd:' .. item, 'superseded\n{"what":"superseded"}')
    redis.call('HDEL', KEYS[1], 'item', 'card', 'digest')
  end
  redis.call('HSET', KEYS[1], 'op', op, 'tok', '', 'deaths', 0)
  if ending == 'park' then
    redis.call('HSET', KEYS[1], 'state', 'parked', 'item', ARGV[10], 'card', ARGV[9], 'digest', ARGV[11])
    redis.call('ZADD', KEYS[7], now, ARGV[10])
    if delay > 0 then line_up(prefix, ref, now + delay) end
  elseif ending == 'queue' then
    redis.call('HSET', KEYS[1], 'state', 'queued', 'note', ARGV[9])
    line_up(prefix, ref, now + delay)
  else
    if state == 'waiting' then
      redis.call('LREM', KEYS[5], 1, ref)
    else
      next_ref = redis.call('LPOP', KEYS[5]) or ''
      redis.call('HSET', KEYS[4], 'active', next_ref)
      if next_ref ~= '' then
        redis.call('HSET', prefix .. 't:' .. next_ref, 'state', 'queued')
        line_up(prefix, next_ref, now)
      end
    end
    redis.call('HSET', KEYS[1], 'state', 'done', 'out', ARGV[9], 'next', next_ref)
    redis.call('HDEL', KEYS[1], 'input', 'own', 'note')
    redis.call('EXPIRE', KEYS[1], ARGV[12])
    redis.call('EXPIRE', KEYS[2], ARGV[12])
  end
end
if n_events > 0 then
  redis.call('PUBLISH', ARGV[13], ref .. '\n' .. (first + 1) .. '\n' .. table.concat(ARGV, '\n', 15, 14 + n_events))
end
return {'OK', next_ref}
