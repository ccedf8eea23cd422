-- Runs each command of the scripts on a key that does not exist. None creates it. Returns, by turns, the name
-- and the error of those that fail.
local failed = {}
for _, command in ipairs({{'GET'}, {'GETRANGE', '0', '0'}, {'STRLEN'}, {'PEXPIRETIME'}, {'SET', '', 'XX'},
  {'SETRANGE', '0', ''}, {'PERSIST'}, {'PEXPIREAT', '1'}, {'DEL'}}) do
  local answer = redis.pcall(command[1], KEYS[1], unpack(command, 2))
  if type(answer) == 'table' and answer.err then
    table.insert(failed, command[1])
    table.insert(failed, answer.err)
  end
end
return failed
