import * as common from "@diskmesh/api/common";
import * as cpi from "@diskmesh/api/cpi";
import * as director from "@diskmesh/api/director";
import * as internal from "@diskmesh/api/internal";
import * as registry from "@diskmesh/api/registry";
import { DomainError, type Identity, MIB_BYTES } from "@diskmesh/domain";
import { createClient, type ServiceDefinition, type TlsFiles } from "@diskmesh/rpc";
import { anotherCertificate } from "@diskmesh/testkit";
import { expect } from "chai";
import { wholeFleet } from "../mesh/fleets.js";
import type { ServiceName } from "../mesh/plan.js";
import { TestMesh } from "../mesh/test-mesh.js";
import { offeredServices } from "../reference/roles.js";

const DEFINITIONS = [common, cpi, director, internal, registry]
  .flatMap((module) => Object.values(module) as object[])
  .filter((value): value is ServiceDefinition => "fullName" in value && "methods" in value);

const ALLOWED = ["Create", "Attach", "Detach", "Delete", "Get", "Resize", "Provide", "Undelete"].map(
  (verb) => `${verb}DynamicDisk`,
);
const MORE_ALLOWED = ["ListDynamicDisks", "GetDynamicDiskCapacity", "SetDynamicDiskLimits"];

const READS = ["GetTask", "GetTaskOutput", "ListDeployments", "ListInstances", "ListTasks", "WatchTask"];

it("callers whose rights end may call the methods of dynamic disks, and are refused by every other method of every service", async () => {
  await using mesh = await TestMesh.start(wholeFleet({ hosts: 1, devicesPerHost: 1, deviceSizeBytes: MIB_BYTES }));
  const made = (identity: Identity) =>
    anotherCertificate(mesh.certificates.folder, `${identity.role}-scoped`, {
      identity,
      commonName: identity.role,
      usages: ["client"],
    });
  const callers = [
    [mesh.certificates.files("csi"), []],
    [await made({ role: "csi", name: "work" }), []],
    [await made({ role: "operator-disks", name: "a" }), READS],
  ] as const;
  for (const [tls, reads] of callers) {
    const permitted: string[] = [];
    let refused = 0;
    for (const [fullName, offers] of offeredServices())
      for (const { process } of offers) {
        const definition = DEFINITIONS.find((each) => each.fullName === fullName);
        if (definition === undefined) throw new Error(`there is no definition of ${fullName}`);
        for (const [name, reason] of await reasons(mesh, process as ServiceName, definition, tls))
          if (reason === "PERMISSION_DENIED") refused++;
          else permitted.push(name);
      }
    expect(permitted.sort()).to.deep.equal([...ALLOWED, ...MORE_ALLOWED, ...reads].sort());
    expect(refused).to.be.above(80);
  }
});

/** Calls each method with an empty request. Resolves to the methods' names and the reasons of their failures. */
async function reasons(
  mesh: TestMesh,
  process: ServiceName,
  definition: ServiceDefinition,
  tls: TlsFiles,
): Promise<[string, string][]> {
  const name = process === "disk-agent" ? "host-1" : process;
  const client = createClient(definition, {
    address: mesh.address(name),
    tls,
    serverRole: process,
    ...(process === "disk-agent" ? { serverName: name } : {}),
    defaultDeadlineMs: 30_000,
  }) as unknown as Record<string, (request: object) => unknown> & { close(): void };
  try {
    const asked = Object.entries(definition.methods).map(async ([key, method]): Promise<[string, string]> => {
      const request = method.requestStream ? noRequests() : {};
      try {
        const answer = client[key]?.(request);
        if (method.responseStream) for await (const _ of answer as AsyncIterable<unknown>) break;
        else await answer;
        return [method.name, "OK"];
      } catch (error) {
        return [method.name, error instanceof DomainError ? error.reason : String(error)];
      }
    });
    return await Promise.all(asked);
  } finally {
    client.close();
  }
}

async function* noRequests(): AsyncGenerator<never> {}
