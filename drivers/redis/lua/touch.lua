-- ARGV: the caller's time; the meta of the record to touch; the meta to write, empty to remove the
-- header; the key's expiry, 0 for none; the record's own, if it must have passed by the server's time
-- exactly if it has by the caller's. If it has not, returns the server's, in a table.
local meta, foreign = found()
if not meta or dead(meta) then
  return 0
elseif meta ~= ARGV[2] then
  return meta
elseif ARGV[5] and apart(ARGV[5] + 0, ARGV[1] + 0) then
  return apart(ARGV[5] + 0, ARGV[1] + 0)
end
if ARGV[4] ~= '0' and ARGV[4] + 0 <= server() then
  redis.call('DEL', KEYS[1]) -- alone: the user may lack the right to another write
  return 1
end
local record = foreign and '\0sl1 ' .. ARGV[3] .. ' ' .. foreign
if ARGV[3] == '' then
  record = foreign or redis.call('GETRANGE', KEYS[1], 54, -1)
end
if record then
  if ARGV[4] == '0' then
    redis.call('SET', KEYS[1], record)
  else
    redis.call('SET', KEYS[1], record, 'PXAT', ARGV[4])
  end
  return 1
end
-- PEXPIREAT comes before the header: when memory is full, a script's first write must be one that
-- needs none; later writes are then allowed.
if ARGV[4] == '0' then
  redis.call('PERSIST', KEYS[1])
else
  redis.call('PEXPIREAT', KEYS[1], ARGV[4])
end
if redis.call('SETRANGE', KEYS[1], 5, ARGV[3]) < 54 then
  redis.call('DEL', KEYS[1]) -- that expiry had passed, so PEXPIREAT deleted the record
end
return 1
