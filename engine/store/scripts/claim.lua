-- A worker takes one due turn: the first of the tenant that is first in line. The token is the fence: from here
-- on only writes that carry it count. An expired parked turn is taken as well; its item is closed here.
--
-- KEYS  1 ready  2 running  3 beats  4 claims
-- ARGV  1 prefix  2 worker  3 token  4 most running turns per tenant (0: no limit)  5 '1' if a suspect may be taken
-- Answers  OK <T> <S> hash-of-turn n_events n_log log more(1: another turn may be due) | NONE | UNKNOWN_WORKER (beat first)
-- Repeating it with the same token answers with the same turn while it runs. One claim of a worker at a time.

local prefix, worker, token, limit = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
-- How far one call looks. Tenants that it passes over are moved back, so the next call looks on; suspects keep their
-- place, so that a worker which may not take one must look past all that a lost process of usual size leaves behind.
local TENANTS, TURNS = 16, ARGV[5] == '1' and 8 or 256

if redis.call('HEXISTS', KEYS[3], worker) == 0 then return {'UNKNOWN_WORKER'} end

local function answer(ref)
  local key = prefix .. 't:' .. ref
  local session = redis.call('HGET', key, 'session')
  local base = tonumber(redis.call('HGET', prefix .. 's:' .. session, 'base') or 0)
  local log = prefix .. 's:' .. session .. ':log'
  return {'OK', ref, session, redis.call('HGETALL', key), redis.call('XLEN', key .. ':ev'), redis.call('LLEN', log),
    redis.call('LRANGE', log, base, -1), redis.call('ZCOUNT', KEYS[1], '-inf', now_ms()) > 0 and 1 or 0}
end

local last = redis.call('HGET', KEYS[4], worker)
if last and string.sub(last, 1, #token) == token then
  local ref = string.sub(last, #token + 2)
  local held = redis.call('HMGET', prefix .. 't:' .. ref, 'state', 'tok')
  if held[1] == 'running' and held[2] == token then return answer(ref) end
end

local now = now_ms()

local function close_expired(key, tenant)
  local item = redis.call('HGET', key, 'item')
  if not item then return end
  redis.call('ZREM', prefix .. 'pend:' .. tenant, item)
  redis.call('HSET', key, 'd:' .. item, 'expired\n{"what":"expired"}')
  redis.call('HDEL', key, 'item', 'card', 'digest')
end

local function take(ref, tenant)
  local key = prefix .. 't:' .. ref
  local state = redis.call('HGET', key, 'state')
  if state == 'parked' then close_expired(key, tenant) end
  redis.call('ZREM', prefix .. 'ready:' .. tenant, ref)
  line_place(prefix, tenant, now)
  redis.call('HSET', key, 'state', 'running', 'tok', token, 'own', worker, 'at', now)
  redis.call('HDEL', key, 'note')
  redis.call('ZADD', KEYS[2], 0, worker .. '|' .. ref)
  redis.call('SADD', prefix .. 'busy:' .. tenant, ref)
  redis.call('HSET', KEYS[4], worker, token .. '|' .. ref)
  return answer(ref)
end

for _, tenant in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, TENANTS)) do
  local own_line = prefix .. 'ready:' .. tenant
  if limit > 0 and redis.call('SCARD', prefix .. 'busy:' .. tenant) >= limit then
    redis.call('ZADD', KEYS[1], now, tenant)
  else
    for _, ref in ipairs(redis.call('ZRANGEBYSCORE', own_line, '-inf', now, 'LIMIT', 0, TURNS)) do
      local f = redis.call('HMGET', prefix .. 't:' .. ref, 'state', 'deaths')
      if f[1] ~= 'queued' and f[1] ~= 'parked' then
        redis.call('ZREM', own_line, ref)  -- the leavings of a store that lost a suffix
      elseif ARGV[5] == '1' or tonumber(f[2]) == 0 then
        return take(ref, tenant)
      end
    end
    line_place(prefix, tenant, now)
  end
end
return {'NONE'}
