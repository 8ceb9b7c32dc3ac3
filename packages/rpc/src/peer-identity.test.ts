import { readFileSync } from "node:fs";
import { ChannelCredentials, Client, Server, ServerCredentials } from "@grpc/grpc-js";
import { expect } from "chai";
import { connectionOf, identityOfCall, type PeerOfCall } from "./peer-identity.js";
import { Bench, NoteService } from "./testing.js";

describe("identityOfCall", () => {
  const bench = new Bench();
  before(() => bench.makeCertificates());
  after(() => bench.remove());

  it("reads a certificate once per connection with this version of grpc-js, and never takes another's", async () => {
    const seen: { connection: unknown; name: string; parsed: number }[] = [];
    const server = new Server();
    server.addService(NoteService as never, {
      get: (call: PeerOfCall & { request: unknown }, callback: (error: null, note: unknown) => void) => {
        let parsed = 0;
        const original = call.getAuthContext.bind(call);
        call.getAuthContext = () => {
          parsed++;
          return original();
        };
        seen.push({ connection: connectionOf(call), name: identityOfCall(call).role, parsed });
        callback(null, call.request);
      },
    });
    const pem = (file: string) => readFileSync(file);
    const { caFile, certFile, keyFile } = bench.files("disk-registry");
    const keys = [{ cert_chain: pem(certFile), private_key: pem(keyFile) }];
    const port = await new Promise<number>((resolve, reject) => {
      const credentials = ServerCredentials.createSsl(pem(caFile), keys, true);
      server.bindAsync("127.0.0.1:0", credentials, (error, bound) => (error ? reject(error) : resolve(bound)));
    });
    const { path, requestSerialize, responseDeserialize } = NoteService.get;
    for (const name of ["operator", "director"]) {
      const files = bench.files(name);
      const tls = ChannelCredentials.createSsl(pem(files.caFile), pem(files.keyFile), pem(files.certFile));
      const client = new Client(`localhost:${port}`, tls);
      for (let count = 0; count < 3; count++)
        await new Promise((resolve, reject) => {
          client.makeUnaryRequest(path, requestSerialize, responseDeserialize, { text: "", count }, (error, note) =>
            error ? reject(error) : resolve(note),
          );
        });
      client.close();
    }
    server.forceShutdown();
    expect(seen.map((one) => one.name)).to.deep.equal([
      ...["operator", "operator", "operator"],
      ...["director", "director", "director"],
    ]);
    expect(seen.map((one) => one.parsed)).to.deep.equal([1, 0, 0, 1, 0, 0]);
    expect(seen[0]?.connection).to.be.an("object");
    expect(seen[0]?.connection).not.to.equal(seen[3]?.connection);
  });
});
