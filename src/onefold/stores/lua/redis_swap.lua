-- Try changes, one after another. Asked: a list of {ID, scope, expected version or nil, entry or nil, begin,
-- delay or nil, keep or nil}. Reply: the time, and for each change the version it was written with, or the
-- fields of what is stored instead, or false where nothing is stored.
local STATE, VERSION, FENCE, BEGUN, LEASE, WRITTEN, NOT_BEFORE, EXPIRES = 1, 4, 5, 7, 8, 9, 11, 12

-- A done entry that may be forgotten leaves memory by itself, if nobody purges it first: as late again as it was
-- to be kept, and a day at least, so that native expiry never decides anything. Any later write undoes it.
local GRACE = 86400

local now = clock()
local now_text = text(now)
local registered = {}

local function register(scope)
  if not registered[scope] then redis.call('ZADD', LEDGER .. ':scopes', '0', scope) end
  registered[scope] = true
end

local function due(entry)
  if entry[STATE] == 'held' then return text(now + entry[LEASE]) end
  return entry[STATE] == 'free' and entry[NOT_BEFORE] or now_text
end

local function index(id, scope, was, entry)
  local state, was_open = entry[STATE], was and was ~= 'done'
  -- Always, and first: a full server refuses what needs memory only to a script that has not written yet. So new
  -- claims are refused, and what is running can still be renewed and ended.
  if was_open then redis.call('ZREM', open_key(was, scope), id) end
  if state == 'done' then return end
  redis.call('ZADD', open_key(state, scope), due(entry), id)
  if not was_open then register(scope) end
end

local function stamp(entry, version, begin, delay, keep)
  entry[VERSION] = version
  if entry[FENCE] == 0 then entry[FENCE] = version end
  if begin then entry[BEGUN] = now_text end
  entry[WRITTEN] = now_text
  entry[NOT_BEFORE] = delay and text(now + delay)
  entry[EXPIRES] = keep and text(now + keep)
end

local function write(key, scope, entry)
  local given, count = {'scope', scope}, 2
  for at = 1, #FIELDS - 1 do
    local value = entry[at]
    if value ~= nil then
      given[count + 1], given[count + 2] = FIELDS[at], text(value)
      count = count + 2
    end
  end
  redis.call('HSET', key, unpack(given))
end

local function remove(id, state, expires)
  if state ~= 'done' or not expires or tonumber(expires) > now then return read(id) end
  redis.call('DEL', entry_key(id))
  return false
end

local function try(change)
  local id, scope, expected, entry, begin, delay, keep = unpack(change, 1, 7)
  local key = entry_key(id)
  local version, was, expires = unpack(redis.call('HMGET', key, 'version', 'state', 'expires'))
  if (version or nil) ~= text(expected) then return version and read(id) end
  if not entry then return remove(id, was, expires) end
  stamp(entry, text(expected and expected + 1 or math.floor(now * 1000000)), begin, delay, keep)
  -- The index first: if its name is somebody else's, no entry is written.
  index(id, scope, was, entry)
  -- What the new entry does not have must go, and so must the time at which the old one was to leave.
  if version then redis.call('DEL', key) end
  write(key, scope, entry)
  if keep and entry[STATE] == 'done' then
    redis.call('PEXPIRE', key, text(math.ceil((keep + math.max(keep, GRACE)) * 1000)))
  end
  return entry[VERSION]
end

local replies = {}
for at, change in ipairs(cmsgpack.unpack(ARGV[1])) do
  replies[at] = try(change)
end
return cmsgpack.pack({now, replies})
