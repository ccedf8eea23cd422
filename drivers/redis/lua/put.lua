-- Returns the meta of what it has written, and behind it that of the dead record that it has
-- replaced; else the meta of the record that it leaves, or 0 if there is none. ARGV: the caller's
-- time; the meta of the record to replace, empty to insert one; the record; when it is deleted, 0
-- for never.
local meta, replaced = found(), ''
if meta and dead(meta) then
  replaced = meta
  meta = nil
end
if ARGV[2] == '' then
  if meta then
    return meta
  end
elseif not meta then
  return 0
elseif meta ~= ARGV[2] then
  return meta
end
if ARGV[4] == '0' then
  redis.call('SET', KEYS[1], ARGV[3])
else
  redis.call('SET', KEYS[1], ARGV[3], 'PXAT', ARGV[4])
end
return string.sub(ARGV[3], 6, 53) .. replaced
