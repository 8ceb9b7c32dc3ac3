import { copyFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { InvalidArgumentError } from "@diskmesh/domain";
import { expect } from "chai";
import { Bench } from "./testing/note-bench.js";
import { clientContext, type TlsFiles } from "./tls.js";

describe("what clients connect with", () => {
  const bench = new Bench();
  before(() => bench.makeCertificates());
  after(() => bench.remove());

  it("is made once, and anew when a file says something else", () => {
    const folder = join(bench.folder, "own");
    mkdirSync(folder);
    const pem = (name: string) => join(folder, `${name}.pem`);
    const files: TlsFiles = { caFile: pem("ca"), certFile: pem("cert"), keyFile: pem("key") };
    const become = (name: string) => {
      const of = bench.files(name);
      for (const file of ["caFile", "certFile", "keyFile"] as const) copyFileSync(of[file], files[file]);
    };
    become("operator");
    const first = clientContext(files);
    expect(clientContext({ ...files })).to.equal(first);
    become("director");
    const second = clientContext(files);
    expect(second).to.not.equal(first);
    expect(clientContext(files)).to.equal(second);
    expect(() => clientContext({ ...files, keyFile: pem("none") })).to.throw(InvalidArgumentError, "none.pem");
  });
});
