-- ARGV: the caller's time; the meta of the record to remove.
local meta = found()
if not meta or dead(meta) then
  return 0
elseif meta ~= ARGV[2] then
  return meta
end
redis.call('DEL', KEYS[1])
return 1
