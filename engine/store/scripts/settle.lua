-- A person's decision on the open item of a parked turn: stored, put on record, and the turn queued. One wins.
--
-- KEYS  1 turn  2 log  3 pending of the tenant  4 events
-- ARGV  1 prefix  2 <T>  3 item  4 fingerprint of the decision  5 digest it was made on, or ''  6 decision (JSON)  7 record
-- Answers  APPLIED <decision> n_events | SAME <decision> n_events | CONFLICT <decision that won>
--          DIGEST <digest shown> | EXPIRED | CLOSED state | GONE
-- Repeating it answers SAME. Nothing is written unless it answers APPLIED.

local f = redis.call('HMGET', KEYS[1], 'state', 'item', 'd:' .. ARGV[3], 'digest')
local state, won = f[1], f[3]
if not state then return {'GONE'} end
if won then
  local nl = string.find(won, '\n', 1, true)
  local fingerprint, decision = string.sub(won, 1, nl - 1), string.sub(won, nl + 1)
  if fingerprint == ARGV[4] then return {'SAME', decision, redis.call('XLEN', KEYS[4])} end
  if fingerprint == 'expired' then return {'EXPIRED'} end
  if fingerprint == 'superseded' then return {'CLOSED', state} end
  return {'CONFLICT', decision}
end
if state ~= 'parked' or f[2] ~= ARGV[3] then return {'GONE'} end
local due = redis.call('ZSCORE', ARGV[1] .. 'ready:' .. tenant_of(ARGV[2]), ARGV[2])
local now = now_ms()
if due and tonumber(due) <= now then return {'EXPIRED'} end
if ARGV[5] ~= '' and ARGV[5] ~= f[4] then return {'DIGEST', f[4]} end

redis.call('HSET', KEYS[1], 'state', 'queued', 'd:' .. ARGV[3], ARGV[4] .. '\n' .. ARGV[6])
redis.call('HDEL', KEYS[1], 'item', 'card', 'digest')
redis.call('RPUSH', KEYS[2], ARGV[7])
redis.call('ZREM', KEYS[3], ARGV[3])
line_leave(ARGV[1], ARGV[2])
line_up(ARGV[1], ARGV[2], now)
return {'APPLIED', ARGV[6], redis.call('XLEN', KEYS[4])}
