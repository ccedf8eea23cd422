-- ARGV: the caller's time; the meta of the record to remove, empty for any; '1' if that time is a
-- past moment at which the record was alive.
if ARGV[2] == '' then
  redis.call('STRLEN', KEYS[1]) -- an error for another type than string
else
  local meta = found()
  if not meta or ARGV[3] == '' and dead(meta) then
    return 0
  elseif meta ~= ARGV[2] then
    return meta
  end
end
redis.call('DEL', KEYS[1])
return 1
