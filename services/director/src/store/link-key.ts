/** The key that signs addresses of vendor methods. There is one, made with the first address. */
export interface LinkKey {
  readonly name: "vendor-methods";
  /** 32 random bytes in base64url. */
  readonly key: string;
}
