import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { freePort, stemcellFile } from "@diskmesh/testkit";
import { expect } from "chai";
import type { HttpAnswer, HttpClient } from "../testing/http-client.js";
import { type HttpDirector, startHttpDirector } from "../testing/http-director.js";
import { CLOUD_CONFIG } from "../testing/test-director.js";

const YAML = { "content-type": "text/yaml" };
const JSON_TYPE = { "content-type": "application/json" };

/** A manifest as the CLI sends it: sorted keys, and the fields that a deploy of BOSH's own director needs. */
const MANIFEST = `instance_groups:
- azs:
  - z1
  env:
    password: canary-in-env
  instances: 2
  jobs: []
  name: web
name: dep
releases: []
stemcells: []
update:
  canaries: 1
  canary_watch_time: 1000-60000
  max_in_flight: 1
  update_watch_time: 1000-60000
`;
const CPI_CONFIG = `cpis:
- exec_path: /bin/true
  name: proc
  properties:
    password: canary-in-cpi-config
  type: proc
`;

type ConfigObject = { readonly [name: string]: unknown; readonly id: string; readonly content: string };

/**
 * The fields of answers that the bosh CLI reads. test/src/bosh-requests.test.ts runs the CLI's commands,
 * route-table.test.ts checks the statuses of each route, and route-scopes.test.ts checks its scopes.
 */
describe("answers for the bosh CLI", () => {
  let mesh: HttpDirector;
  let http: HttpClient;

  before(async () => {
    mesh = await startHttpDirector({}, { stemcells: { allowPrivateAddresses: true } });
    ({ http } = mesh);
    await mesh.director.configs.updateConfig({ type: "cloud", content: CLOUD_CONFIG });
  });
  after(() => mesh?.director.stop());

  const posted = (path: string, value: object): Promise<HttpAnswer> =>
    http.send("POST", path, { headers: JSON_TYPE, body: JSON.stringify(value) });
  const parsed = <T>(answer: HttpAnswer): T => JSON.parse(answer.body) as T;

  async function updateConfig(type: string, name: string, content: string): Promise<ConfigObject> {
    const diff = parsed<{ from: { id: string }; diff: unknown[] }>(
      await posted("/configs/diff", { type, name, content }),
    );
    expect(diff.from.id).to.be.a("string");
    const answer = await posted("/configs", { type, name, content, expected_latest_id: diff.from.id });
    expect(answer.status).to.equal(201);
    return parsed<ConfigObject>(answer);
  }

  it("CPI configs -> secrets in no diff, and readable by administrators only", async () => {
    const diff = await posted("/configs/diff", { type: "cpi", name: "proc", content: CPI_CONFIG });
    expect(diff.body).to.contain("<redacted>").and.not.to.contain("canary-in-cpi-config");
    await updateConfig("cpi", "proc", CPI_CONFIG);
    const path = "/configs?latest=true&limit=1&name=proc&type=cpi";
    expect(((await http.json(path)) as ConfigObject[])[0]?.content).to.equal(CPI_CONFIG);
    const reader = mesh.as("reader");
    expect((await reader.send("GET", path)).body)
      .to.contain("<redacted>")
      .and.not.to.contain("canary-in");
    expect((await http.send("DELETE", "/configs?name=proc&type=cpi")).status).to.equal(204);
  });

  it("config of an unknown type, delete-config ID, diff-config -> stored; after a deletion the previous version applies", async () => {
    const first = await updateConfig("mine", "x", "a: 1\n");
    expect(first).to.include({ type: "mine", name: "x", team: null, current: true, content: "a: 1\n" });
    expect(first.created_at).to.match(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/);
    const second = await updateConfig("mine", "x", "a: 2\n");
    const stale = { type: "mine", name: "x", content: "a: 3\n", expected_latest_id: first.id };
    const refused = await posted("/configs", stale);
    expect(refused.status).to.equal(412);
    expect(parsed(refused)).to.include({ expected_latest_id: first.id });
    const diff = async (from: object, to: object) =>
      parsed<{ diff: unknown[] }>(await posted("/configs/diff", { from, to })).diff;
    const changed = [
      ["a: 1", "removed"],
      ["a: 2", "added"],
    ];
    expect(await diff({ id: first.id, content: "" }, { id: second.id, content: "" })).to.deep.equal(changed);
    expect(await diff({ id: "", content: "a: 1" }, { id: second.id, content: "" })).to.deep.equal(changed);
    expect(await diff({ id: "", content: "a: 1" }, { id: "", content: "a: 2" })).to.deep.equal(changed);
    expect(await diff({ id: first.id, content: "" }, { id: first.id, content: "" })).to.deep.equal([]);
    for (const odd of [{}, { id: "x" }, { content: "[" }, { content: "- 1" }, { id: "999" }])
      expect((await posted("/configs/diff", { from: { id: first.id }, to: odd })).status).to.be.oneOf([400, 404]);
    const path = "/configs?latest=true&limit=1&name=x&type=mine";
    expect((await http.send("DELETE", `/configs/${second.id}`)).status).to.equal(204);
    expect(await http.json(path)).to.deep.equal([{ ...first, current: true }]);
    expect((await http.send("DELETE", `/configs/${first.id}`)).status).to.equal(204);
    expect(await http.json(path)).to.deep.equal([]);
  });

  it("upload-stemcell URL -> downloaded, if it matches the digest", async () => {
    // The CLI sends an empty name and version when it was given only a URL.
    expect(parsed(await posted("/stemcell_uploads", { stemcell: { name: "", version: "" } }))).to.deep.equal({
      needed: true,
    });
    const file = await stemcellFile({ name: "far", version: "2" });
    const server = createServer((_request, response) => response.end(file));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const location = `http://127.0.0.1:${(server.address() as AddressInfo).port}/far.tgz?signature=canary-in-url`;
    const fetched = (fields: object) =>
      http.task("POST", "/stemcells", { headers: JSON_TYPE, body: JSON.stringify({ location, ...fields }) });
    try {
      const damaged = await fetched({ sha1: "0".repeat(40) });
      expect(damaged.task).to.include({ state: "error" });
      expect(damaged.task.result).to.match(/has the sha1 .*, not 0{40}/);
      expect(damaged.events.at(-1)).to.have.nested.property("error.code", 50_007);
      expect(await http.json("/stemcells")).to.deep.equal([]);
      const { task, result, events } = await fetched({ sha1: createHash("sha1").update(file).digest("hex") });
      expect([task.state, result]).to.deep.equal(["done", "/stemcells/far/2\n"]);
      expect(JSON.stringify([task, events])).not.to.contain("canary-in-url");
      expect(events[0]).to.include({ stage: "Update stemcell", task: "Downloading remote stemcell" });
      expect((await http.json("/stemcells")) as object[]).to.have.length(1);
    } finally {
      server.close();
    }
    // Another free port, because another server may have taken the closed server's port.
    const nowhere = `http://127.0.0.1:${await freePort()}/far.tgz`;
    expect((await fetched({ location: nowhere })).task.result).to.match(/cannot be downloaded from 127.0.0.1/);
    for (const odd of [{}, { location: "file:///x" }, { location, sha1: "x" }, "[", "x".repeat(70_000)]) {
      const body = typeof odd === "string" ? odd : JSON.stringify(odd);
      expect((await http.send("POST", "/stemcells", { headers: JSON_TYPE, body })).status).to.equal(400);
    }
    expect((await http.task("DELETE", "/stemcells/far/2")).task.state).to.equal("done");
  });

  it("the diff of a deploy -> redacted; of an invalid manifest -> its error", async () => {
    const diff = (body: string) => http.send("POST", "/deployments/dep/diff?redact=true", { headers: YAML, body });
    const shown = await diff(MANIFEST);
    expect(shown.body)
      .to.contain('["name: dep","added"]')
      .and.contain("<redacted>")
      .and.not.to.contain("canary-in-env");
    const refused = await diff("name: [");
    expect(refused.status).to.equal(200);
    expect(parsed<{ error: string }>(refused).error).to.be.a("string");
    const none = await http.send("GET", "/deployments/none");
    expect(parsed(none)).to.deep.equal({ code: 70_000, description: "deployment `none` not found" });
  });

  const OF_STEMCELL = (stemcell: string) =>
    MANIFEST.replace("name: web", "name: web\n  stemcell: default").replace(
      "stemcells: []",
      `stemcells: [${stemcell}]`,
    );
  const MISSING: [what: string, ask: () => Promise<HttpAnswer>, code: number, description: RegExp][] = [
    [
      "a stemcell by OS",
      () => deployed(OF_STEMCELL("{alias: default, os: noble, version: '1.5'}")),
      50_003,
      /^there is no stemcell of OS `noble`, version `1.5`: upload it$/,
    ],
    [
      "a stemcell by name",
      () => deployed(OF_STEMCELL("{alias: default, name: toy, version: latest}")),
      50_003,
      /^there is no stemcell `toy` version `latest`: upload it$/,
    ],
    [
      "an old task",
      () => http.send("GET", "/tasks/99999"),
      10_000,
      /^there is no task 99999; the director deletes old/,
    ],
    ["a task by a text", () => http.send("GET", "/tasks/x"), 10_000, /^a task id is a number of at least 1$/],
  ];
  const deployed = (body: string) => http.send("POST", "/deployments", { headers: YAML, body });
  for (const [what, ask, code, description] of MISSING)
    it(`${what} that is missing -> the error's own words, with BOSH's code ${code}`, async () => {
      const answer = await ask();
      expect(answer.status).to.equal(404);
      const found = parsed<{ code: number; description: string }>(answer);
      expect(found.code).to.equal(code);
      expect(found.description).to.match(description);
    });
});
