-- Read entries. Asked: the IDs. Reply: the time, and for each ID its fields, or false.
local found = {}
for at, id in ipairs(cmsgpack.unpack(ARGV[1])) do
  found[at] = read(id)
end
return cmsgpack.pack({clock(), found})
