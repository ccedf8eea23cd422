CREATE TABLE own (
    tenant bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    text text,
    "all" json,
    made timestamp with time zone,
    "Ends" timestamp without time zone,
    "look at" bigint DEFAULT 0 NOT NULL,
    "select" bigint
);
ALTER TABLE ONLY own
    ADD CONSTRAINT own_pkey PRIMARY KEY (tenant, name);
CREATE INDEX "own_look at" ON own USING btree ("look at");
