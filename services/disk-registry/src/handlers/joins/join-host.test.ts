import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type HostId, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { createAuthority, createHostAuthority, hostRequest } from "@diskmesh/pki";
import { systemClock } from "@diskmesh/service";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import type { Context } from "../../calls/context.js";
import { createToken } from "../../model/joins/join-tokens.js";
import type { RegistryTables, RegistryTransaction } from "../../model/store/schema.js";
import { TestFleet } from "../../testing/fleet-fixture.js";
import { joinHost } from "./join-host.js";
import { hashOf } from "./join-tokens.js";

it("a host gets its certificate only once the token's use and the event with its serial number are durable", async () => {
  const folder = temporaryFolder();
  const authority = { certFile: join(folder, "hosts-ca.pem"), keyFile: join(folder, "hosts-ca-key.pem") };
  const made = await createHostAuthority(await createAuthority({ commonName: "mesh", validDays: 1, pathLength: 1 }));
  writeFileSync(authority.certFile, made.certPem);
  writeFileSync(authority.keyFile, made.keyPem, { mode: 0o600 });
  const fleet = new TestFleet({});
  const secretHash = hashOf("secret").toString("hex");
  const token = { tokenId: "t1", secretHash, hosts: "*", uses: 2, usesLeft: 2, createdBy: "ann" };
  fleet.transact((tx) => createToken(tx, { ...token, endsAtMs: Number.MAX_SAFE_INTEGER, createdAtMs: 0 }));
  let commit = async () => {};
  const context = {
    fleet: { requireLeads: () => {} },
    tablet: {
      read: async (read: (tables: RegistryTables) => unknown) => read(fleet.tables),
      transact: async (change: (tx: RegistryTransaction) => unknown) => {
        const result = fleet.transact(change);
        await commit();
        return result;
      },
    },
    clock: systemClock,
    config: { join: { authority }, listen: { port: 7030 }, events: { maxCount: 10, maxAgeDays: 1 } },
  } as unknown as Context;
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const keyPem = String(privateKey.export({ type: "pkcs8", format: "pem" }));
  const ask = async (hostId: string) =>
    joinHost(context, {
      tokenId: "t1",
      secret: "secret",
      hostId,
      request: await hostRequest(hostId as HostId, keyPem),
    });
  expect((await ask("r1")).certificate).to.contain("BEGIN CERTIFICATE");
  commit = async () => {
    throw new UnavailableError("the disk is full");
  };
  await rejection(() => ask("r2"), UnavailableError, "the disk is full");
});
