import { X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";
import { InvalidArgumentError, messageOf, UnavailableError } from "@diskmesh/domain";
import type { Contents } from "@diskmesh/tls";
import { MongoClient } from "mongodb";
import { CONNECTIONS_MAX } from "./document-server.js";

/** How long the driver looks for a server that takes writes, per try, unless the address says otherwise. */
const SELECTION_TIMEOUT_MS = 5_000;
const CONNECT_TIMEOUT_MS = 10_000;
/** A connection on which nothing comes for so long while an answer is due counts as broken. */
const SOCKET_TIMEOUT_MS = 20_000;

/** The options of the address that name files of TLS. The certificate's file holds its key, too. */
export type TlsOption = "tlsCAFile" | "tlsCRLFile" | "tlsCertificateKeyFile";

/** What those files say; nothing where the address names none. */
export type AddressTls = Contents<TlsOption>;

export const NO_TLS_FILES: AddressTls = {
  tlsCAFile: Buffer.alloc(0),
  tlsCRLFile: Buffer.alloc(0),
  tlsCertificateKeyFile: Buffer.alloc(0),
};

/** Parses the address and opens nothing yet. The driver itself would read the files once, whenever it connects. */
export function newClient(url: string, tls: AddressTls = NO_TLS_FILES): MongoClient {
  const { tlsCAFile: ca, tlsCRLFile: crl, tlsCertificateKeyFile: pair } = tls;
  try {
    return new MongoClient(url, {
      ...(/[?&]appName=/i.test(url) ? {} : { appName: "diskmesh" }),
      ...(ca.length > 0 ? { ca } : {}),
      ...(crl.length > 0 ? { crl } : {}),
      ...(pair.length > 0 ? { cert: pair, key: pair } : {}),
      // What a lost answer means is decided by the tablet's protocol, not by the driver.
      retryWrites: false,
      retryReads: false,
      ...(/[?&]serverSelectionTimeoutMS=/i.test(url) ? {} : { serverSelectionTimeoutMS: SELECTION_TIMEOUT_MS }),
      connectTimeoutMS: CONNECT_TIMEOUT_MS,
      socketTimeoutMS: SOCKET_TIMEOUT_MS,
      maxPoolSize: CONNECTIONS_MAX,
      // What is sent at once shall arrive at once, also at first: the probe needs it.
      maxConnecting: CONNECTIONS_MAX,
      ignoreUndefined: true,
    });
  } catch (error) {
    // The driver quotes parts of the address, in which there may be a password.
    const reason = messageOf(error);
    const shown = /[@/]/.test(reason) ? "the driver cannot parse it" : reason;
    throw new InvalidArgumentError(
      `the address of MongoDB is malformed: ${shown}; it must be like mongodb://host:27017/database`,
    );
  }
}

export type TlsPaths = { readonly [Each in TlsOption]: string | undefined };

export function tlsPathsOf({ options }: MongoClient): TlsPaths {
  const { tls, tlsCAFile, tlsCRLFile, tlsCertificateKeyFile } = options;
  if (!tls) return { tlsCAFile: undefined, tlsCRLFile: undefined, tlsCertificateKeyFile: undefined };
  return { tlsCAFile, tlsCRLFile, tlsCertificateKeyFile };
}

/** Throws UnavailableError for what OpenSSL would not take, by its name: the driver says only that it found no server. */
export function checkTls(tls: AddressTls, paths: TlsPaths, passphrase: string | undefined): void {
  const { tlsCAFile: ca, tlsCRLFile: crl, tlsCertificateKeyFile: pair } = tls;
  const check = (option: TlsOption, what: string, parse: (content: Buffer) => unknown): void => {
    if (paths[option] === undefined) return;
    try {
      parse(tls[option]);
    } catch (error) {
      throw new UnavailableError(
        `${option} ${paths[option]}, which the address of MongoDB names, holds no ${what} that can be used: ${messageOf(error)}; put a whole one there`,
      );
    }
  };
  check("tlsCAFile", "certificate in PEM", () => new X509Certificate(ca));
  check("tlsCRLFile", "list of revoked certificates in PEM", () => createSecureContext({ crl }));
  check("tlsCertificateKeyFile", "certificate in PEM with its key", () =>
    createSecureContext({ cert: pair, key: pair, passphrase }),
  );
}
