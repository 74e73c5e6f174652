-- The line of due turns, shared by all scripts (put before each of them). Two levels make it fair: a tenant's
-- own turns by due time, and the tenants by their place, which moves to the back whenever one of theirs is taken.

local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function tenant_of(ref) return string.match(ref, '^[^.]+') end

local function line_up(prefix, ref, due)
  local tenant = tenant_of(ref)
  redis.call('ZADD', prefix .. 'ready:' .. tenant, due, ref)
  redis.call('ZADD', prefix .. 'ready', 'LT', due, tenant)
end

-- The tenant's place after its own line changed: its earliest due time, but not before `floor`.
local function line_place(prefix, tenant, floor)
  local first = redis.call('ZRANGE', prefix .. 'ready:' .. tenant, 0, 0, 'WITHSCORES')
  if #first == 0 then
    redis.call('ZREM', prefix .. 'ready', tenant)
  else
    redis.call('ZADD', prefix .. 'ready', math.max(floor, tonumber(first[2])), tenant)
  end
end

local function line_leave(prefix, ref)
  local tenant = tenant_of(ref)
  if redis.call('ZREM', prefix .. 'ready:' .. tenant, ref) == 1 and
     redis.call('EXISTS', prefix .. 'ready:' .. tenant) == 0 then
    redis.call('ZREM', prefix .. 'ready', tenant)
  end
end
