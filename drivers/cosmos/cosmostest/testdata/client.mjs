// Calls an account by the official client: node client.mjs endpoint key before|split|after, with a
// minute of the account's time in between. Where it prints a line it waits for one, and a split of
// the physical partitions.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const { CosmosClient } = createRequire(process.cwd() + "/")("@azure/cosmos");
const [endpoint, key, phase] = process.argv.slice(2);
const client = new CosmosClient({ endpoint, key });
const { database } = await client.databases.createIfNotExists({ id: "node" });
const { container } = await database.containers.createIfNotExists({
  id: "sessions",
  partitionKey: { paths: ["/id"], version: 2 },
  defaultTtl: -1,
});

async function refused(what, call, code) {
  await assert.rejects(call, (err) => {
    assert.equal(err.code, code, what);
    return true;
  });
}

async function before() {
  const { resource: made } = await container.items.create({ id: "a", user: "ann", n: 1, list: [1, 2] });
  await refused("a create of what is there", container.items.create({ id: "a" }), 409);
  const { resource: read } = await container.item("a", "a").read();
  assert.deepEqual(read, made);

  const match = (etag) => ({ accessCondition: { type: "IfMatch", condition: etag } });
  const { resource: replaced } = await container.item("a", "a").replace({ ...made, user: "ben" }, match(made._etag));
  assert.equal(replaced.user, "ben");
  await refused("a replacement of what was before", container.item("a", "a").replace(made, match(made._etag)), 412);

  const { resource: patched } = await container.item("a", "a").patch([
    { op: "set", path: "/user", value: "eve" },
    { op: "incr", path: "/n", value: 2 },
    { op: "add", path: "/list/-", value: 3 },
  ]);
  assert.deepEqual([patched.user, patched.n, patched.list], ["eve", 3, [1, 2, 3]]);
  const { resource: conditional } = await container.item("a", "a").patch({
    condition: "FROM c WHERE c.n = 3",
    operations: [{ op: "remove", path: "/list" }],
  });
  assert.equal(conditional.list, undefined);
  await refused("a patch on a condition", container.item("a", "a").patch({
    condition: "FROM c WHERE c.n = 4",
    operations: [{ op: "set", path: "/n", value: 5 }],
  }), 412);

  for (let i = 0; i < 20; i++) {
    await container.items.upsert({ id: `b${i}`, user: i % 2 ? "odd" : "even" });
  }
  const odd = { query: "SELECT c.id FROM c WHERE c.user = @user", parameters: [{ name: "@user", value: "odd" }] };
  const { resources: found } = await container.items.query(odd, { maxItemCount: 3 }).fetchAll();
  assert.equal(new Set(found.map((item) => item.id)).size, 10);
  const { resources: one } = await container.items.query("SELECT * FROM c", { partitionKey: "b7" }).fetchAll();
  assert.deepEqual(one.map((item) => item.id), ["b7"]);
  const { resources: values } = await container.items.query("SELECT VALUE c.user FROM c WHERE STARTSWITH(c.id, 'a')").fetchAll();
  assert.deepEqual(values, ["eve"]);

  await container.item("b0", "b0").delete();
  assert.equal((await container.item("b0", "b0").read()).statusCode, 404);
  await refused("a delete of what is gone", container.item("b0", "b0").delete(), 404);
  await container.items.create({ id: "t", ttl: 60 });
  assert.equal((await container.item("t", "t").read()).resource.ttl, 60);
}

const all = "SELECT VALUE c.n FROM c WHERE STARTSWITH(c.id, 's')";
const numbers = Array.from({ length: 40 }, (_, i) => i);

async function split() {
  for (let i = 0; i < 40; i++) {
    await container.items.upsert({ id: `s${i}`, n: i });
  }
  const query = container.items.query(all, { maxItemCount: 3 });
  const { resources: seen } = await query.fetchNext();
  console.log("a page is here");
  await new Promise((resolve) => process.stdin.once("data", resolve));
  process.stdin.destroy();
  while (query.hasMoreResults()) {
    seen.push(...((await query.fetchNext()).resources ?? []));
  }
  assert.deepEqual(seen.sort((a, b) => a - b), numbers);
  assert.equal((await container.item("s7", "s7").read()).resource.n, 7);
}

async function after() {
  // With a plan the client itself asks each physical partition.
  const { resources: planned } = await container.items.query(all, { maxItemCount: 3, forceQueryPlan: true }).fetchAll();
  assert.deepEqual(planned.sort((a, b) => a - b), numbers);
  assert.equal((await container.item("t", "t").read()).statusCode, 404);
  const { resources } = await container.items.query("SELECT c.id FROM c WHERE c.id = 't'").fetchAll();
  assert.deepEqual(resources, []);
  await container.items.create({ id: "t", user: "again" });
  assert.equal((await container.item("a", "a").read()).resource.user, "eve");
}

await { before, split, after }[phase]();
client.dispose();
