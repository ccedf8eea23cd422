-- Returns the meta it has written, followed by the server's time and the meta of a dead record it
-- replaced. If it does not write: the meta of the stored record, 0 if there is none, or late. ARGV: the
-- caller's time, 0 if it does not count; the meta of the record to replace, empty to insert; the
-- record; the key's expiry, 0 for none; the record's own, if it must not have passed by the server's
-- time.
local meta, replaced = found(), ''
if meta and dead(meta) then
  replaced = meta
  meta = nil
end
if ARGV[2] == '' then
  if meta or late(ARGV[3]) then
    return meta or late(ARGV[3])
  end
elseif not meta then
  return 0
elseif meta ~= ARGV[2] then
  return meta
elseif ARGV[5] and apart(ARGV[5] + 0, 0) then
  return apart(ARGV[5] + 0, 0)
end
if ARGV[4] == '0' then
  redis.call('SET', KEYS[1], ARGV[3])
else
  redis.call('SET', KEYS[1], ARGV[3], 'PXAT', ARGV[4])
end
return written(ARGV[3], replaced)
