import type { HostId } from "@diskmesh/domain";
import type { Table } from "@diskmesh/tablet";

/** A token with which hosts get certificates. The secret itself is nowhere stored. */
export interface JoinToken {
  readonly tokenId: string;
  /** SHA-256 of the secret, in hex. The secret is 256 random bits, so that a slow hash would protect nothing. */
  readonly secretHash: string;
  /** Pattern of the ids of hosts that may join. */
  readonly hosts: string;
  readonly uses: number;
  readonly usesLeft: number;
  readonly endsAtMs: number;
  /** Identity of the operator who made the token. */
  readonly createdBy: string;
  readonly createdAtMs: number;
  /** Set by the restore of a backup, which ends the token. */
  readonly isRestored?: true | undefined;
}

/** A certificate that this registry signed. An operator revokes it by its serial number. */
export interface HostCertificate {
  /** In hex. */
  readonly serialNumber: string;
  readonly endsAtMs: number;
}

/** A host that has got a certificate by a token and has not registered yet. */
export interface JoinedHost {
  readonly hostId: HostId;
  readonly tokenId: string;
  /** SHA-256 of the certificate's public key, in hex. */
  readonly keyHash: string;
  /** More than one when an answer was lost and the host asked again. */
  readonly certificates: readonly HostCertificate[];
  /** Set by the restore of a backup: the host is not added when it registers. */
  readonly isRestored?: true | undefined;
}

export const joinTokens: Table<JoinToken, never> = {
  key: ({ tokenId }) => tokenId,
  indexes: {},
  onRestore: (token) => ({ ...token, isRestored: true }),
};

export const joinedHosts: Table<JoinedHost, "byToken"> = {
  key: ({ hostId }) => hostId,
  indexes: { byToken: ({ tokenId }) => tokenId },
  // The backup may be older than the removal of the host, so an operator decides whether it is added.
  onRestore: (joined) => ({ ...joined, isRestored: true }),
};
