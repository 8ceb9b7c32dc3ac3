import { setTimeout as delay } from "node:timers/promises";
import { eventually, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import { table } from "../documents/schema.js";
import { Tablet } from "../tablet.js";
import { openMongoStorage } from "./open-mongo.js";
import { CommandProxy } from "./testing/command-proxy.js";
import { documentDatabase } from "./testing/document-database.js";
import { databaseUrl, newTabletName, removeTablet, withDatabase } from "./testing/test-location.js";

const schema = { counters: table<{ id: string; n: number }>()({ key: ({ id }) => id }) };
const DEFINITE_CODES = [16_500, 8_000, 121, 14_031, 50, 112, 262];
const UNKNOWN_CODE = 96;
/** Long enough for 18 claims if there were no pauses between them. */
const OBSERVED_MS = 2_000;

describe("a view on a server that fails whole write commands", () => {
  const tabletName = newTabletName();
  let serverUrl: string;

  before(async function () {
    const found = await documentDatabase();
    if (typeof found === "string") return skipBecause(this, found);
    serverUrl = found.url;
  });

  afterEach(() => removeTablet(databaseUrl(serverUrl), tabletName));

  /** Resolves with the number of claims made while the server answered with each of the codes in turn. */
  async function claimsDuring(codes: readonly number[], observedMs: number): Promise<number> {
    let code: number | undefined;
    await using proxy = await CommandProxy.start(serverUrl, ({ update }) =>
      code !== undefined && update === `${tabletName}.counters` ? { ok: 0, code, errmsg: `code ${code}` } : undefined,
    );
    const storage = openMongoStorage({ url: databaseUrl(proxy.url), tabletName });
    const troubles: (string | undefined)[] = [];
    const onTrouble = (trouble: string | undefined) => troubles.push(trouble);
    await using tablet = await Tablet.open({ name: tabletName, schema, storage, address: "127.0.0.1:1", onTrouble });
    let n = 0;
    return await withDatabase(databaseUrl(serverUrl), async (database) => {
      for (code of codes) {
        await tablet.transact(({ counters }) => counters.put({ id: "a", n: ++n }));
        await delay(observedMs);
        await eventually(() => expect(troubles.at(-1), `code ${code}`).to.contain(`code ${code}`));
        code = undefined;
        await eventually(() => expect(troubles.at(-1)).to.equal(undefined));
        expect(await database.collection(`${tabletName}.counters`).findOne()).to.include({ n });
      }
      return (await database.collection(`${tabletName}.log`).countDocuments({ kind: "claim" })) - 1;
    });
  }

  it("repeats the writes without a claim when the error is definite", async () => {
    expect(await claimsDuring(DEFINITE_CODES, 0)).to.equal(0);
  });

  it("claims with growing pauses while the error leaves the outcome unknown", async () => {
    expect(await claimsDuring([UNKNOWN_CODE], OBSERVED_MS)).to.be.within(1, 8);
  });
});
