-- From layout 5: adds counts of page views.

CREATE TABLE page_view (
    day            bigint NOT NULL,
    path           text   NOT NULL,
    representation text   NOT NULL CHECK (representation IN ('html', 'markdown')),
    agent          text   NOT NULL,
    views          bigint NOT NULL,
    PRIMARY KEY (day, path, representation, agent)
);

CREATE TABLE referrer (
    day   bigint NOT NULL,
    host  text   NOT NULL,
    views bigint NOT NULL,
    PRIMARY KEY (day, host)
);
