CREATE TABLE records (
    id text NOT NULL COLLATE pg_catalog."C",
    value jsonb NOT NULL,
    created_at bigint,
    expires_at bigint,
    sweep_at bigint DEFAULT 0 NOT NULL,
    version bigint
)
WITH (fillfactor='80');
ALTER TABLE ONLY records
    ADD CONSTRAINT records_pkey PRIMARY KEY (id);
CREATE INDEX records_sweep_at ON records USING btree (sweep_at);
