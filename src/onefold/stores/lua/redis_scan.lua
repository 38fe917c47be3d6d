-- List open entries, by state, scope, due time and ID. Asked: {states, scope or nil, due, limit, place or nil}, and
-- a place is {scope, score, ID} in the first of the states, where the page before ended. Reply: the time, a list of
-- {ID, fields}, and the place where this page ended with its state before it, false if that was the end of all.
local states, only, due, limit, place = unpack(cmsgpack.unpack(ARGV[1]), 1, 5)
local now = clock()
local found = {}

local function scopes(first)
  if only then return {only} end
  return redis.call('ZRANGEBYLEX', LEDGER .. ':scopes', first and '[' .. first or '-', '+')
end

-- A scope in which nothing is open any more need not be looked at again.
local function forget(scope)
  local held, free, parked = open_key('held', scope), open_key('free', scope), open_key('parked', scope)
  if redis.call('EXISTS', held, free, parked) == 0 then redis.call('ZREM', LEDGER .. ':scopes', scope) end
end

local function was_shown(id, score, lowest, last)
  return last and tonumber(score) == tonumber(lowest) and id <= last
end

-- Add what one index holds; return the place where the page is full.
local function list(state, scope, lowest, last)
  local highest, offset = due and text(now) or '+inf', 0
  while true do
    local page = redis.call(
      'ZRANGEBYSCORE', open_key(state, scope), lowest, highest, 'WITHSCORES', 'LIMIT', offset, limit)
    if #page == 0 then return end
    for at = 1, #page, 2 do
      local id, score = page[at], page[at + 1]
      local entry = not was_shown(id, score, lowest, last) and read(id)
      if entry and entry[1] == state then
        found[#found + 1] = {id, entry}
        if #found == limit then return {state, scope, score, id} end
      end
    end
    offset = offset + limit
  end
end

for _, state in ipairs(states) do
  for _, scope in ipairs(scopes(place and place[1])) do
    local lowest, last = '-inf', nil
    if place and place[1] == scope then lowest, last = place[2], place[3] end
    local full = list(state, scope, lowest, last)
    if full then return cmsgpack.pack({now, found, full}) end
    if not only then forget(scope) end
  end
  place = nil
end
return cmsgpack.pack({now, found, false})
