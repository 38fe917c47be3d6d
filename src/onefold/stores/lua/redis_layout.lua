-- How a ledger lies in Redis or Valkey (6 or later), and what its scripts have in common.
--
--   {onefold}:meta               hash    schema: the number of this layout, 1
--   {onefold}:entry:ID           hash    one entry; ID is the digest of the key, in hexadecimal
--   {onefold}:open:STATE:SCOPE   zset    the IDs of the entries in this state and scope, if it is free, held or
--                                        parked; the score is when one is due, in seconds since 1970
--   {onefold}:scopes             zset    the scopes that may have something open; all scores are 0
--
-- "onefold" is the prefix that the store's URL can change. In braces it is a hash tag: a whole ledger lies in
-- one slot, so that an entry and its place in the index change together, in a cluster too. Done entries are in
-- no index. A field of an entry that is not there is None; an empty one is empty text. Numbers are decimal text,
-- never made by tostring, which rounds. Times are seconds since 1970 by the server's clock, read once in a call.
--
-- KEYS[1] is the prefix in braces, from which every name follows; ARGV[1] is what is asked, in MessagePack, and
-- so is the reply.
local LEDGER = KEYS[1]

-- In the order in which an entry is sent; the scope is the key's, and not sent with it.
local FIELDS = {
  'state', 'why', 'token', 'version', 'fence', 'effect', 'begun', 'lease', 'written', 'attempt',
  'not_before', 'expires', 'fingerprint', 'label', 'source', 'body', 'scope',
}

local function entry_key(id)
  return LEDGER .. ':entry:' .. id
end

local function open_key(state, scope)
  return LEDGER .. ':open:' .. state .. ':' .. scope
end

local function clock()
  local time = redis.call('TIME')
  return tonumber(time[1]) + tonumber(time[2]) / 1000000
end

local function text(value)
  if type(value) ~= 'number' then return value end
  return string.format(value % 1 == 0 and '%.0f' or '%.17g', value)
end

-- The fields of an entry, false for each that is not there; false if there is no entry.
local function read(id)
  local entry = redis.call('HMGET', entry_key(id), unpack(FIELDS))
  return entry[1] and entry
end

