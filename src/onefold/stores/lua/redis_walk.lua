-- Walk over everything and show what is done. Asked: {cursor, IDs or nil, scope or nil, pattern, count}; IDs are what
-- the page before had no room for, and are looked at instead of walking on. Reply: the time, the next cursor ('0' at
-- the end), and a list of {ID, fields}.
local cursor, ids, only, pattern, count = unpack(cmsgpack.unpack(ARGV[1]), 1, 5)
local found = {}

if not ids then
  local page = redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', count)
  cursor, ids = page[1], {}
  for at, key in ipairs(page[2]) do ids[at] = string.sub(key, #entry_key('') + 1) end
end
for _, id in ipairs(ids) do
  local entry = read(id)
  if entry and entry[1] == 'done' and (not only or entry[#FIELDS] == only) then
    found[#found + 1] = {id, entry}
  end
end
return cmsgpack.pack({clock(), cursor, found})
