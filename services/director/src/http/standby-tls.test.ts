import { createDevelopmentCertificates } from "@diskmesh/pki";
import { anotherCertificate, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { StandbyApi } from "../testing/standby-api.js";

/**
 * Returns a web server's certificate from another CA, such as an organization's, which assigns no roles of diskmesh.
 */
async function ofTheHouse(ipAddresses: readonly string[]) {
  const folder = temporaryFolder();
  await createDevelopmentCertificates(folder, { hostIds: [] });
  const identity = { role: "operator", name: "web" } as const;
  return anotherCertificate(folder, "web", { identity, commonName: "web", ipAddresses, usages: ["server"] });
}

describe("directors whose HTTPS APIs have certificates of a private CA", () => {
  let api: StandbyApi | undefined;
  afterEach(() => api?.stop());

  const asked = async (leader: { readonly certFile: string; readonly keyFile: string }, caFile: string) => {
    await api?.lead((_request, response) => void response.end("{}"), leader);
    const answer = await api
      ?.client("admin:p", { files: () => ({ caFile, certFile: "", keyFile: "" }) })
      .send("GET", "/tasks");
    await api?.reset();
    return `${answer?.status} ${/self.signed|unable to/.exec(answer?.body ?? "")?.[0] ?? ""}`.trim();
  };

  it("http.tls names the CA -> the leader is accepted, and so is one with the mesh's certificate", async () => {
    const { caFile, certFile, keyFile } = await ofTheHouse(["127.0.0.1", "127.0.0.2"]);
    api = await StandbyApi.start({ tls: { caFile, certFile, keyFile } });
    expect(await asked({ certFile, keyFile }, caFile)).to.equal("200");
    expect(await asked(api.certs.files("director"), caFile)).to.equal("200");
    const stranger = await ofTheHouse(["127.0.0.2"]);
    expect(await asked(stranger, caFile)).to.match(/^503 (self.signed|unable to)/);
    // A certificate of the trusted CA for another host.
    const mesh = api.certs.files("disk-agent-host-1");
    expect(await asked(mesh, caFile)).to.equal("503");
  });

  it("http.tls names no CA -> the leader is not accepted", async () => {
    const { caFile, certFile, keyFile } = await ofTheHouse(["127.0.0.1", "127.0.0.2"]);
    api = await StandbyApi.start({ tls: { certFile, keyFile } });
    expect(await asked({ certFile, keyFile }, caFile)).to.match(/^503 (self.signed|unable to)/);
  });
});
